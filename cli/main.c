/* qkv: finds the verb and hands over. */
#include "cli.h"

#include <fcntl.h>
#include <unistd.h>

const cli_verb *const cli_verbs[] = {&cli_train_classify, &cli_test, &cli_predict, &cli_embed, &cli_info, &cli_attend, &cli_bench,
                                     &cli_flops, &cli_compare, &cli_help, NULL};

/* A closed standard stream would give its number to the next file that is opened. Standard input becomes one that cannot be
 * read and standard output one that cannot be written, so that no data and results that nobody gets are errors. */
static void hold_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        int opened = open("/dev/null", fd == 1 ? O_RDONLY : O_WRONLY);
        if (opened >= 0 && opened != fd) close(opened);
    }
}

static int unknown_task(const char *verb, const char *task) {
    fprintf(stderr, "qkv %s: there is no task '%s'; there is:", verb, task);
    for (int i = 0; cli_verbs[i]; i++) {
        if (!strcmp(cli_verbs[i]->name, verb)) fprintf(stderr, " %s", cli_verbs[i]->task);
    }
    fprintf(stderr, "\n'qkv help %s' shows how it is used.\n", verb);
    return CLI_WRONG_USE;
}

static int run_verb(const cli_verb *verb, int argc, char **argv) {
    if (argc > 0 || verb->bare) return verb->run(verb, argc, argv);
    cli_help_verb(stderr, verb);
    return CLI_WRONG_USE;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        cli_help_overview(stderr);
        return CLI_WRONG_USE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("qkv %s\n", qkv_version_string());
        return CLI_DONE;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        cli_help_overview(stdout);
        return CLI_DONE;
    }
    if (name[0] == '-') return cli_wrong_use(NULL, "there is no option %s; a verb comes first", name);

    const cli_verb *of_name = NULL;
    for (int i = 0; cli_verbs[i]; i++) {
        const cli_verb *verb = cli_verbs[i];
        if (strcmp(verb->name, name)) continue;
        if (!verb->task) return run_verb(verb, argc - 2, argv + 2);
        if (argc > 2 && !strcmp(verb->task, argv[2])) return run_verb(verb, argc - 3, argv + 3);
        of_name = verb;
    }
    if (!of_name) return cli_unknown_verb(name);
    if (argc > 2 && argv[2][0] != '-') return unknown_task(name, argv[2]);
    int asked = argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"));
    cli_help_verb(asked ? stdout : stderr, of_name);
    return asked ? CLI_DONE : CLI_WRONG_USE;
}

int main(int argc, char **argv) {
    hold_standard_streams();
    if (qkv_version_number() != QKV_VERSION_NUMBER) {
        cli_say("the library is version %s, the program was built for %d.%d.%d", qkv_version_string(), QKV_VERSION_MAJOR,
                QKV_VERSION_MINOR, QKV_VERSION_PATCH);
        return CLI_FAILED;
    }
    return cli_finish(run(argc, argv));
}
