// What platforms lack, in C: see Refused.swift.

#include <pthread.h>
#include <unistd.h>

int child(void) { return fork(); }  // not: tvos18.0, watchos11.0
void name(void) { pthread_setname_np(pthread_self(), ""); }  // not: ios18.0, ios18.0-simulator, ios18.0-macabi, macosx15.0, xros2.0, tvos18.0, watchos11.0
