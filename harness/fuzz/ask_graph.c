/* ask_graph FILE...: what the cuDNN frontend and libcudnn (ATTEST_CUDNN, or the one found) say of
 * the graphs of fuzz inputs, up to check_support. Each is asked in a process of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/fuzz/fuzz_frontend.h"
#include "kernels/cudnn_load.h"

enum { SIZE_LIMIT = 4096 };

/* 2: the file is not readable or no graph, or nothing can be asked. */
static int ask(const char *path)
{
    uint8_t data[SIZE_LIMIT];
    char text[AT_CASE_TEXT_MAX], *device = NULL;
    at_fuzz_graph g;
    at_cudnn_answer answer;
    const at_cudnn_api *api = NULL;
    at_error err = {""};
    FILE *file = fopen(path, "rb");
    const size_t size = file != NULL ? fread(data, 1, sizeof data, file) : 0;
    if (file == NULL || fclose(file) != 0 || !at_fuzz_graph_read(&g, data, size)) {
        (void)fprintf(stderr, "ask_graph: %s: cannot be read, or no graph says its case\n", path);
        return 2;
    }
    (void)at_case_print(&g.c, text);
    if (at_cudnn_load(&api, true, &err) != AT_OK ||
        at_cudnn_device(&device, AT_FUZZ_CORPUS, NULL, g.spec.sm, &err) != AT_OK) {
        (void)fprintf(stderr, "ask_graph: %s\n", err.text);
        return 2;
    }
    g.spec.device_json = device;
    (void)printf("%s%s, %s: cudnn %ld: ", text, g.changed ? ", changed" : "",
                 g.spec.backward ? "backward" : "forward", api->version());
    (void)fflush(stdout);
    api->ask(&answer, &g.spec, AT_CUDNN_S4_SUPPORT, NULL, NULL);
    (void)printf("%s at S%d %s %s\n", answer.passed ? "passes" : "refused", (int)answer.stage,
                 answer.code, answer.message);
    free(device);
    return 0;
}

/* In a child: 1 when it dies. */
static int ask_apart(const char *path)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        const int code = ask(path);
        (void)fflush(stdout);
        _exit(code);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        (void)fprintf(stderr, "ask_graph: no process can be started\n");
        return 2;
    }
    if (WIFSIGNALED(status)) {
        (void)printf("the process dies, %s\n", strsignal(WTERMSIG(status)));
        (void)fflush(stdout); /* before the next child copies it */
        return 1;
    }
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    int worst = argc < 2 ? 2 : 0;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: ask_graph FILE...\n");
    }
    for (int i = 1; i < argc; i++) {
        const int code = ask_apart(argv[i]);
        worst = code > worst ? code : worst;
    }
    return worst;
}
