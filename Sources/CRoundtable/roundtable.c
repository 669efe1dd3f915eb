// The functions are in the target RoundtableC, in Swift. Here the compiler looks at the header.
#include "roundtable.h"
