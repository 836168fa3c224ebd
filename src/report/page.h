/* The result of an experiment as one page of HTML with charts drawn in SVG: no script, no other file, no address. */
#ifndef QKV_REPORT_PAGE_H
#define QKV_REPORT_PAGE_H

#include "base/buf.h"
#include "qkv/compare.h"

qkv_status qkv_page_print(const qkv_compare_result *result, qkv_buf *out) QKV_MUST_USE;

/* `text` with what HTML takes for markup written as references; bytes that are not printable UTF-8 become U+FFFD. */
qkv_status qkv_page_text(const char *text, qkv_buf *out) QKV_MUST_USE;

/* A value as a cell of a table has it: "82.41 %", "1.25 ms", "-" for what is not a number. */
void qkv_page_value(qkv_unit unit, double value, char *text, size_t size);

/* src/report/chart.c */
qkv_status qkv_chart_print(const qkv_compare_chart *chart, qkv_buf *out) QKV_MUST_USE;

#endif
