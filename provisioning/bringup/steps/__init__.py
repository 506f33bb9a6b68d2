"""What each step of a bring-up looks at and changes, a module each; `executors.executors` has all."""
