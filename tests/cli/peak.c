/* peak FILE COMMAND...: runs the command, writes to FILE how many bytes of memory it had at most, and ends with its exit code. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) return 125;
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child || !WIFEXITED(status)) return 125;
    FILE *f = fopen(argv[1], "w");
    if (!f || fprintf(f, "%lld\n", 1024 * (long long)usage.ru_maxrss) < 0 || fclose(f)) return 125;
    return WEXITSTATUS(status);
}
