// What <pthread.h> of Darwin has in place of glibc's: the function names the calling thread.
#define pthread_setname_np pthread_setname_np_of_glibc
#include_next <pthread.h>
#undef pthread_setname_np
int pthread_setname_np(const char *);
