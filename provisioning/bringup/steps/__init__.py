"""What each step of a bring-up looks at on a machine and changes there, a module each: `executors.executors`
gives all of them by name."""
