/* The gradient of every op and every layer equals its difference quotient, in the double build. The cases come from the
 * lists of ops/list.h; a source file of src/ops or src/layers that is not in them fails the test. */
#include <dirent.h>

#include "grad_layers.h"
#include "ops/list.h"

typedef struct entry {
    const char *name;
    void (*check)(void);
} entry;

#define ENTRY(name) {#name, case_##name},
static const entry OPS[] = {QKV_OP_LIST(ENTRY)};
static const entry LAYERS[] = {QKV_LAYER_LIST(ENTRY)};
enum { N_OPS = sizeof OPS / sizeof *OPS, N_LAYERS = sizeof LAYERS / sizeof *LAYERS };

static void ops(void **state) {
    (void)state;
    for (int i = 0; i < N_OPS; i++) OPS[i].check();
}

static void layers(void **state) {
    (void)state;
    for (int i = 0; i < N_LAYERS; i++) LAYERS[i].check();
}

static void none_is_forgotten(const char *folder, const entry *list, int n, const char *const *others) {
    char path[1024];
    const char *tests = getenv("QKV_TEST_SOURCE");
    if (!tests) skip();
    snprintf(path, sizeof path, "%s/../src/%s", tests, folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    int seen = 0;
    for (struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        size_t size = strlen(d->d_name);
        if (size < 3 || strcmp(d->d_name + size - 2, ".c") != 0) continue;
        bool known = false;
        for (int i = 0; i < n; i++)
            if (strlen(list[i].name) == size - 2 && strncmp(d->d_name, list[i].name, size - 2) == 0) known = true, seen++;
        for (int i = 0; others[i]; i++) known = known || strcmp(d->d_name, others[i]) == 0;
        if (!known) fail_msg("src/%s/%s is not in ops/list.h", folder, d->d_name);
    }
    closedir(dir);
    assert_int_equal(seen, n);
}

static void lists_are_complete(void **state) {
    (void)state;
    static const char *const not_ops[] =
        {"attention_beside.c", "attention_cost.c", "attention_cut.c", "attention_global.c", "attention_pattern.c",
         "attention_watch.c",  "exec.c",           "reg.c",           "attention_shaw.c",   NULL},
                             *const not_layers[] = {NULL};
    none_is_forgotten("ops", OPS, N_OPS, not_ops);
    none_is_forgotten("layers", LAYERS, N_LAYERS, not_layers);
}

int main(void) {
    const struct CMUnitTest lists[] = {cmocka_unit_test(lists_are_complete)};
    const struct CMUnitTest all[] = {cmocka_unit_test(lists_are_complete), cmocka_unit_test(ops), cmocka_unit_test(layers)};
    /* float differences are too noisy to say anything */
    if (sizeof(real) == sizeof(float)) return cmocka_run_group_tests(lists, NULL, NULL);
    return cmocka_run_group_tests(all, NULL, NULL);
}
