"""The program that runs on a node (`onnode`): how it is built (`program.build`), sent (`loader`) and its reply read (`reply`)."""
