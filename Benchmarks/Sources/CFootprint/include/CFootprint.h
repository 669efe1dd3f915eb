/// For the programs whose footprint is measured.
#ifndef CFOOTPRINT_H
#define CFOOTPRINT_H

/// The most resident memory that this program had at a time, in bytes; 0 if the system does not tell.
///
/// Not `ru_maxrss` on Linux: that of a new program begins with what its parent had (`exec_mmap` in the kernel's fs/exec.c).
long footprint_peak_memory(void);

/// Prints `ready`, and returns when the standard input has ended: the parent has measured this process, or is gone.
void footprint_stay(void);

#endif
