/* A plugin that does nothing. */
#include "crore_plugin.h"

static crore_bytes name(void) {
    crore_bytes bytes = {(const uint8_t *)"noop", 4};
    return bytes;
}

static int nothing;

static void *create(const crore_context *context) {
    (void)context;
    return &nothing;
}

static uint32_t run(void *instance, crore_bytes argument, const crore_context *context,
                    crore_result *result) {
    (void)instance, (void)argument, (void)context, (void)result;
    return CRORE_OK;
}

static void destroy(void *instance) { (void)instance; }

static void free_result(crore_result *result) { (void)result; }

static const crore_plugin PLUGIN = {
    .abi = CRORE_PLUGIN_ABI,
    .name = name,
    .create = create,
    .run = run,
    .destroy = destroy,
    .free_result = free_result,
};

const crore_plugin *crore_plugin_v1(void) { return &PLUGIN; }
