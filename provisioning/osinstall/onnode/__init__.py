"""What runs on a machine to say which signs of an installed or installing system it shows. Python 3.8."""
