"""Small virtual machines with a kernel log of their own: Debian's kernels under qemu without KVM, real
devices' emulations, real faults."""
