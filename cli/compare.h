/* The results of `qkv compare`: tables and verdicts for people, JSON for programs. */
#ifndef QKV_CLI_COMPARE_H
#define QKV_CLI_COMPARE_H

#include "cli.h"

int compare_known(const char *what); /* is it the name of an experiment? */
void compare_print(FILE *to, const qkv_compare_result *result);
json_t *compare_json(const qkv_compare_result *result);

#endif
