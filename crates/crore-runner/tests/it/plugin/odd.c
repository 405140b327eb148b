/* A plugin that obeys its argument, mostly by misbehaving. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crore_plugin.h"

#ifndef ABI
#define ABI CRORE_PLUGIN_ABI
#endif

static volatile sig_atomic_t told_to_stop;

static crore_bytes text(const char *words) {
    crore_bytes bytes = {(const uint8_t *)words, strlen(words)};
    return bytes;
}

static crore_bytes name(void) { return text("Odd"); }

static void say(const crore_context *context, const char *words, long number) {
    char line[64];
    snprintf(line, sizeof line, "%s %ld", words, number);
    context->log(context->host, text(line));
}

static void *create(const crore_context *context) {
#ifdef UNMADE
    say(context, "made nothing", 0);
    return NULL;
#else
    (void)context;
    return calloc(1, sizeof(long));
#endif
}

static void destroy(void *instance) {
    const char *place = getenv("ODD_DESTROYED");
    FILE *file = place ? fopen(place, "w") : NULL;
    if (file) fclose(file);
    free(instance);
}

static void cancel(void *instance) {
    (void)instance;
    told_to_stop = 1;
}

static crore_buffer copy(const char *data, uint64_t len) {
    crore_buffer buffer = {malloc(len + 1), len};
    if (buffer.data && data) memcpy(buffer.data, data, len);
    return buffer;
}

static void give(crore_result *result, uint64_t count) {
    result->items = calloc(count + 1, sizeof *result->items);
    result->count = count;
}

static uint32_t fail(crore_result *result, uint32_t word) {
    result->error = copy("it said so", 10);
    return word;
}

static void wait_for_ever(void) {
    for (;;) pause();
}

static uint32_t run(void *instance, crore_bytes argument, const crore_context *context,
                    crore_result *result) {
    char what[32] = {0};
    long *runs = instance;
    memcpy(what, argument.data, argument.len < 31 ? argument.len : 31);
    *runs += 1;
    told_to_stop = 0;

    if (!strcmp(what, "segfault")) *(volatile int *)8 = 1;
    if (!strcmp(what, "abort")) abort();
    if (!strcmp(what, "exit")) _exit(3);
    if (!strcmp(what, "again")) return fail(result, CRORE_AGAIN);
    if (!strcmp(what, "other")) return fail(result, CRORE_OTHER);
    if (!strcmp(what, "fatal")) return fail(result, CRORE_FATAL);
    if (!strcmp(what, "strange")) return fail(result, 77);
    if (!strcmp(what, "silent")) return CRORE_OTHER;
    if (!strcmp(what, "none")) return CRORE_OK;
    if (!strcmp(what, "hang")) {
        say(context, "pid", getpid());
        wait_for_ever();
    }
    if (!strcmp(what, "fork")) {
        pid_t child = fork();
        if (child == 0) wait_for_ever();
        say(context, "pid", child);
        wait_for_ever();
    }
    if (!strcmp(what, "fork-crash")) {
        pid_t child = fork();
        if (child == 0) wait_for_ever();
        say(context, "pid", child);
        abort();
    }
    if (!strcmp(what, "ask")) {
        say(context, "asking", 0);
        while (!context->is_cancelled(context->host)) usleep(1000);
        return fail(result, CRORE_OTHER);
    }
    if (!strcmp(what, "listen")) {
        say(context, "listening", 0);
        while (!told_to_stop) usleep(1000);
        return fail(result, CRORE_OTHER);
    }
    if (!strcmp(what, "print")) {
        printf("to standard output\n");
        fprintf(stderr, "to standard error\n");
        printf("without an end");
        printf("%d", getchar());
    }
    if (!strcmp(what, "print-much"))
        for (int i = 0; i < 5000; i++) printf("line %d of what is printed\n", i);
    if (!strcmp(what, "null-item")) {
        give(result, 1);
        result->items[0].len = 5;
        return CRORE_OK;
    }
    if (!strcmp(what, "null-items")) {
        result->count = 5;
        return CRORE_OK;
    }
    if (!strcmp(what, "many-items")) {
        give(result, 1);
        result->count = UINT64_MAX;
        return CRORE_OK;
    }
    if (!strcmp(what, "long-item")) {
        give(result, 1);
        result->items[0] = copy("x", 1);
        result->items[0].len = UINT64_MAX;
        return CRORE_OK;
    }
    if (!strcmp(what, "long-error")) {
        fail(result, CRORE_OTHER);
        result->error.len = UINT64_MAX;
        return CRORE_OTHER;
    }
    if (!strcmp(what, "large")) {
        give(result, 1);
        result->items[0] = copy(NULL, 64 << 20);
        return CRORE_OK;
    }
    if (!strcmp(what, "memory")) {
        void *much = malloc(256 << 20);
        if (!much) return fail(result, CRORE_AGAIN);
        free(much);
    }
    if (!strcmp(what, "three")) {
        give(result, 3);
        result->items[0] = copy("one", 3);
        result->items[2] = copy("\xff\0", 2);
        return CRORE_OK;
    }
    char line[64];
    snprintf(line, sizeof line, "run %ld", *runs);
    give(result, 1);
    result->items[0] = copy(line, strlen(line));
    return CRORE_OK;
}

static void free_result(crore_result *result) {
    uint64_t count = result->items ? result->count : 0;
    for (uint64_t i = 0; i < count && i < 3; i++) free(result->items[i].data);
    free(result->items);
    free(result->error.data);
}

#ifdef STUCK
__attribute__((constructor)) static void stuck(void) { wait_for_ever(); }
#endif
#ifdef CRASHING
__attribute__((constructor)) static void crashing(void) { abort(); }
#endif

static const crore_plugin PLUGIN = {
    ABI, name, create, run, cancel,
#ifdef LACKING
    NULL,
#else
    destroy,
#endif
    free_result,
};

#ifndef SYMBOLLESS
const crore_plugin *crore_plugin_v1(void) { return &PLUGIN; }
#else
const crore_plugin *crore_plugin_v0(void) { return &PLUGIN; }
#endif
