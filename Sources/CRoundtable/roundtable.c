// The functions are implemented in Swift, in the target RoundtableC. This file makes the compiler check the header.
#include "roundtable.h"
