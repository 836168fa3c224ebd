/* Names of files that are to be written: nothing that is needed may be lost, and no work may end at a place that takes no file. */
#include "cli.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

int cli_same_file(const char *a, const char *b) {
    struct stat x, y;
    if (!a || !b || !strcmp(a, "-") || !strcmp(b, "-")) return 0;
    if (!strcmp(a, b)) return 1;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int cli_check_place(const char *path, const char *what) {
    struct stat st;
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
        cli_say("%s: is %s, not a file that %s can replace", path, S_ISDIR(st.st_mode) ? "a folder" : "a device or pipe", what);
        return CLI_FAILED;
    }
    size_t length = strlen(path);
    if (length && path[length - 1] == '/') {
        cli_say("%s: is the name of a folder", path);
        return CLI_FAILED;
    }
    char *beside = cli_alloc(length + 16);
    sprintf(beside, "%s.XXXXXX", path);
    int fd = mkstemp(beside), error = errno;
    if (fd >= 0) {
        close(fd);
        unlink(beside);
    } else {
        cli_say("%s: %s could not be written there: %s", path, what, strerror(error));
    }
    free(beside);
    return fd >= 0 ? CLI_GO_ON : CLI_FAILED;
}
