// Turns the default log of events off in every program that links this: the tests, and the processes that they start. Their databases have
// problems on purpose, and the log would write each of them on standard error, between the results of the tests.
//
// A test that wants the log asks for it: `options.eventLog = .system`, or `rt_set_default_log_off(0)` for what a program has without any
// option.
#include "CRoundtableShims.h"

__attribute__((constructor)) static void turn_the_default_log_off(void) { rt_set_default_log_off(1); }
