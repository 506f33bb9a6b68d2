"""What is wrong with a fabric as its subnets show it: pure functions from what was seen, planned and counted
before to findings (`whole.check_fabric`)."""
