"""The kernel-log baseline: what healthy nodes say, what is known to be bad, and what nobody has said before."""
