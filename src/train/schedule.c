#include "train/schedule.h"

#include <math.h>

int64_t qkv_warmup_steps(double warmup, int64_t total) {
    if (!(warmup > 0) || total <= 0) return 0;
    double steps = warmup < 1 ? floor(warmup * (double)total + 0.5) : floor(warmup);
    return steps < (double)total ? (int64_t)steps : total;
}

double qkv_schedule_factor(const qkv_schedule *s, int64_t step) {
    if (step < 1) step = 1;
    if (step <= s->warmup) return (double)step / (double)s->warmup;
    if (s->kind == QKV_SCHEDULE_CONSTANT) return 1;
    if (s->kind == QKV_SCHEDULE_INVERSE_SQRT) return sqrt((double)(s->warmup > 1 ? s->warmup : 1) / (double)step);
    if (step > s->total) return 0;
    /* W < step <= T, so T - W is at least 1 */
    double done = (double)(step - 1 - s->warmup) / (double)(s->total - s->warmup);
    return s->kind == QKV_SCHEDULE_LINEAR ? 1 - done : 0.5 * (1 + cos(3.14159265358979323846 * done));
}
