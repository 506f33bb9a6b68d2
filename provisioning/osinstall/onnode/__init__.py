"""What runs on a machine, with Python 3.8 and systemd alone: it says which signs of an installed or
installing system it shows, or phones home once it is installed.
"""
