"""On a machine, with Python 3.8 and systemd alone: it shows signs of an installed or installing system, or
phones home once installed."""
