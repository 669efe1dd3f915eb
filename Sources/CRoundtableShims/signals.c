#include "CRoundtableShims.h"

#include <signal.h>
#include <stddef.h>

int rt_signal_is_ignored(int signal_number) {
    struct sigaction action;
    return sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}
