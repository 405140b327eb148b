/*
 * A plugin in C that greets the name in the payload.
 *
 *   cc -shared -fPIC -O2 -I sdks/plugin -o hello.so sdks/plugin/examples/hello.c
 */
#include <stdlib.h>
#include <string.h>

#include "crore_plugin.h"

static const char GREETING[] = "hello, ";

static crore_bytes text(const char *words) {
    crore_bytes bytes = {(const uint8_t *)words, strlen(words)};
    return bytes;
}

static crore_bytes name(void) { return text("HelloC"); }

/* This plugin has no state; any address but null will do. */
static void *create(const crore_context *context) {
    (void)context;
    return (void *)GREETING;
}

static void destroy(void *instance) { (void)instance; }

static uint32_t run(void *instance, crore_bytes argument, const crore_context *context,
                    crore_result *result) {
    const uint64_t prefix = sizeof GREETING - 1;
    (void)instance;
    context->log(context->host, text("about to greet"));

    result->items = calloc(1, sizeof *result->items);
    if (result->items == NULL) return CRORE_AGAIN;
    result->items[0].data = malloc(prefix + argument.len);
    if (result->items[0].data == NULL) return CRORE_AGAIN;
    memcpy(result->items[0].data, GREETING, prefix);
    if (argument.len > 0) memcpy(result->items[0].data + prefix, argument.data, argument.len);
    result->items[0].len = prefix + argument.len;
    result->count = 1;
    return CRORE_OK;
}

static void free_result(crore_result *result) {
    if (result->items != NULL) free(result->items[0].data);
    free(result->items);
}

static const crore_plugin PLUGIN = {
    .abi = CRORE_PLUGIN_ABI,
    .name = name,
    .create = create,
    .run = run,
    .cancel = NULL,
    .destroy = destroy,
    .free_result = free_result,
};

const crore_plugin *crore_plugin_v1(void) { return &PLUGIN; }
