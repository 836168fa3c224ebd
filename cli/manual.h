/* The manual page. */
#ifndef QKV_CLI_MANUAL_H
#define QKV_CLI_MANUAL_H

#include <stdio.h>

void cli_manual(FILE *to); /* roff, from the tables of options */

#endif
