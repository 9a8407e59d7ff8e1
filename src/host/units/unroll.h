#pragma once
// TESSERA_UNROLL before a loop of a constant number of rounds unrolls it. An array of sums stays in registers only where every
// loop over it is unrolled early; else the compiler copies it to memory and back before and after a product's inner loop.

#if defined(__clang__)
#define TESSERA_UNROLL _Pragma("unroll")
#else
#define TESSERA_UNROLL _Pragma("GCC unroll 16")
#endif
