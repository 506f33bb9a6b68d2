// Kernels that break in one way each: `broken WAY`. What the driver writes to the kernel's log about them is what test_xid.py reads.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <unistd.h>

__global__ void unmapped(char *p) { p[1ull << 44] = 1; }
__global__ void misaligned(char *p) { *(int *)(p + 1) = 1; }
__global__ void traps() { asm volatile("trap;"); }
__global__ void beyond_shared(int at) { extern __shared__ int shared[]; shared[at] = at; }
__global__ void endless(volatile char *p) { while (!*p); }

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    char *p = nullptr;
    cudaMalloc(&p, 1 << 20);
    cudaMemset(p, 0, 1 << 20);
    if (!strcmp(way, "unmapped")) unmapped<<<1, 1>>>(p);
    else if (!strcmp(way, "misaligned")) misaligned<<<1, 1>>>(p);
    else if (!strcmp(way, "traps")) traps<<<1, 1>>>();
    else if (!strcmp(way, "beyond-shared")) beyond_shared<<<1, 1, 16>>>(1 << 24);
    else if (!strcmp(way, "killed")) { endless<<<1, 1>>>(p); sleep(1); kill(getpid(), SIGKILL); }
    else return 2;
    puts(cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
