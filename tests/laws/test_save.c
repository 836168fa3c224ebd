/* Law "save": whatever goes wrong while a model is being saved, the file under its name is the old one or the new one, whole.
 * Every write, fsync, close and rename is made to fail once; and the process is killed at each of them. */
#include <errno.h>
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model_support.h"

typedef struct script {
    int64_t calls, at; /* the call numbered `at` (from 1) fails, 0: none */
    int code;          /* errno, or -1: the process is killed */
    char what[64];
} script;

static int play(void *user, const char *what) {
    script *s = user;
    if (++s->calls != s->at) return 0;
    snprintf(s->what, sizeof s->what, "%s", what);
    return s->code;
}

static void set_fault(qkv_ctx *ctx, script *s) {
    ctx->fault = s ? play : NULL;
    ctx->fault_user = s;
}

/* A model larger than any buffer on the way to the disk, so that there are several writes. */
static qkv_model *large_model(qkv_ctx *ctx, uint64_t seed) {
    qkv_config config = test_config();
    config.ffn = 3000;
    qkv_model *model;
    if (test_model_try(ctx, &config, &model) != QKV_OK) fail_msg("%s", ctx->message);
    qkv_reg_init(qkv_classifier_reg(model->net), seed, model->weights);
    return model;
}

typedef struct bytes {
    char *data;
    int64_t size;
} bytes;

static bool same_bytes(bytes a, bytes b) {
    return a.size == b.size && memcmp(a.data, b.data, (size_t)a.size) == 0;
}

static bytes read_bytes(const char *path) {
    bytes b;
    b.data = test_read_file(path, &b.size);
    return b;
}

/* Files in `folder` whose names begin with "model". */
static int files_in(const char *folder) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += strncmp(e->d_name, "model", 5) == 0;
    closedir(d);
    return n;
}

static void clean_folder(const char *folder) {
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    closedir(d);
    rmdir(folder);
}

typedef struct stage {
    test_memory memory;
    qkv_ctx ctx;
    char folder[512], path[600];
    qkv_model *old_model, *new_model;
    bytes old_file, new_file;
    int64_t calls; /* of one save that goes well */
} stage;

static void raise_stage(stage *s, const char *name) {
    *s = (stage){0};
    s->ctx = test_ctx_run(&s->memory);
    test_path(name, s->folder);
    clean_folder(s->folder);
    assert_int_equal(mkdir(s->folder, 0777), 0);
    snprintf(s->path, sizeof s->path, "%s/model", s->folder);
    s->old_model = large_model(&s->ctx, 1);
    s->new_model = large_model(&s->ctx, 2);
    script count = {0};
    set_fault(&s->ctx, &count);
    assert_int_equal(qkv_model_save(s->new_model, s->path), QKV_OK);
    set_fault(&s->ctx, NULL);
    s->calls = count.calls;
    s->new_file = read_bytes(s->path);
    assert_int_equal(qkv_model_save(s->old_model, s->path), QKV_OK);
    s->old_file = read_bytes(s->path);
    assert_false(same_bytes(s->old_file, s->new_file));
}

static void strike_stage(stage *s) {
    qkv_model_free(s->old_model);
    qkv_model_free(s->new_model);
    free(s->old_file.data);
    free(s->new_file.data);
    qkv_par_close(&s->ctx);
    assert_int_equal(s->memory.blocks, 0);
    clean_folder(s->folder);
}

/* Whole, and one of the two; true: the new one. */
static bool check_file(stage *s, const char *when) {
    bytes now = read_bytes(s->path);
    bool is_old = same_bytes(now, s->old_file), is_new = same_bytes(now, s->new_file);
    free(now.data);
    if (!is_old && !is_new) fail_msg("%s: the file is neither the old nor the new one", when);
    qkv_model *model;
    if (qkv_model_load(&s->ctx, s->path, &model) != QKV_OK) fail_msg("%s: %s", when, s->ctx.message);
    qkv_model_free(model);
    return is_new;
}

static void every_call_fails_once(void **state) {
    (void)state;
    stage s;
    raise_stage(&s, "save-fail");
    assert_true(s.calls >= 6); /* several writes, fsync, close, rename, fsync of the folder */
    int failed = 0;
    for (int64_t at = 1; at <= s.calls; at++) {
        script fault = {.at = at, .code = ENOSPC};
        set_fault(&s.ctx, &fault);
        qkv_status status = qkv_model_save(s.new_model, s.path);
        set_fault(&s.ctx, NULL);
        assert_int_equal(status, QKV_IO);
        assert_non_null(strstr(s.ctx.message, s.path));
        assert_non_null(strstr(s.ctx.message, strerror(ENOSPC)));
        /* Once the rename is done the new file stands, even if the folder could not be synced. */
        bool is_new = check_file(&s, fault.what);
        assert_int_equal(is_new, strstr(fault.what, "folder") != NULL);
        assert_int_equal(files_in(s.folder), 1); /* nothing temporary stays behind */
        assert_int_equal(qkv_model_save(s.old_model, s.path), QKV_OK);
        failed++;
    }
    assert_int_equal(failed, s.calls);
    strike_stage(&s);
}

static void a_first_save_that_fails_leaves_nothing(void **state) {
    (void)state;
    stage s;
    raise_stage(&s, "save-first");
    for (int64_t at = 1; at < s.calls; at++) { /* the last call comes after the rename */
        assert_int_equal(unlink(s.path), 0);
        script fault = {.at = at, .code = EIO};
        set_fault(&s.ctx, &fault);
        assert_int_equal(qkv_model_save(s.new_model, s.path), QKV_IO);
        set_fault(&s.ctx, NULL);
        assert_int_equal(files_in(s.folder), 0);
        assert_int_equal(qkv_model_save(s.old_model, s.path), QKV_OK);
    }
    strike_stage(&s);
}

/* In a child that is killed at call number `at`; the child has run no threads. */
static void kill_at(stage *s, int64_t at) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        script fault = {.at = at, .code = -1};
        set_fault(&s->ctx, &fault);
        qkv_status status = qkv_model_save(s->new_model, s->path);
        _exit(status == QKV_OK ? 0 : 1); /* must not be reached */
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(WTERMSIG(how), SIGKILL);
}

static void killed_at_every_call(void **state) {
    (void)state;
    stage s;
    raise_stage(&s, "save-kill");
    int seen_new = 0;
    for (int64_t at = 1; at <= s.calls; at++) {
        kill_at(&s, at);
        seen_new += check_file(&s, "killed");
        assert_int_equal(qkv_model_save(s.old_model, s.path), QKV_OK); /* what the dead one left behind is in nobody's way */
        assert_false(check_file(&s, "saved after a kill"));
    }
    assert_int_equal(seen_new, 1); /* only behind the rename */
    strike_stage(&s);
}

/* Save, load, save gives the same bytes, over tasks of every shape of network. */
static void save_load_save(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    char path[512];
    test_path("save-again", path);
    for (int variant = 0; variant < 24; variant++) {
        qkv_config config = test_config();
        config.position = variant % 3;
        config.pooling = variant % 5;
        config.norm = variant % 2;
        config.activation = variant % 6;
        config.norm_place = variant % 5 == 0 ? 1 + variant % 2 : 0;
        config.bias = variant % 7 != 0;
        config.kv_heads = variant % 2 ? 3 : 1;
        config.span = (qkv_span){variant - 1, variant % 3 - 1};
        config.dropout = 1.0 / (variant + 2);
        qkv_model *model, *loaded;
        if (test_model_try(&ctx, &config, &model) != QKV_OK) fail_msg("%s", ctx.message);
        assert_int_equal(qkv_model_save(model, path), QKV_OK);
        bytes first = read_bytes(path);
        if (qkv_model_load(&ctx, path, &loaded) != QKV_OK) fail_msg("%s", ctx.message);
        assert_memory_equal(model->weights, loaded->weights, (size_t)qkv_classifier_reg(model->net)->size * sizeof(real));
        assert_int_equal(qkv_model_save(loaded, path), QKV_OK);
        bytes second = read_bytes(path);
        assert_true(same_bytes(first, second));
        free(first.data);
        free(second.data);
        qkv_model_free(model);
        qkv_model_free(loaded);
    }
    assert_int_equal(memory.blocks, 0);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_fails_once),
        cmocka_unit_test(a_first_save_that_fails_leaves_nothing),
        cmocka_unit_test(killed_at_every_call),
        cmocka_unit_test(save_load_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
