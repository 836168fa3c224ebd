/* What the files behind `qkv test` share. */
#ifndef QKV_CLI_TEST_H
#define QKV_CLI_TEST_H

#include "cli.h"

/* One model on the rows: as text (test_report.c) and as JSON (test_json.c). */
void test_print(const qkv_model *model, const qkv_classify_report *report);
void test_print_notes(const qkv_classify_report *report);
json_t *test_json(const qkv_model *model, const qkv_classify_report *report);

/* Two of them (test_compare.c). */
typedef struct test_side {
    const char *path;
    qkv_model *model;
    qkv_classify_report *report;
} test_side;

void test_print_comparison(const test_side sides[2], const qkv_comparison *comparison);
json_t *test_comparison_json(const test_side sides[2], const qkv_comparison *comparison);

const char *test_label(const qkv_model *model, const qkv_classify_report *report, int64_t number);
json_t *test_interval_json(qkv_interval interval); /* null where there is none */

#endif
