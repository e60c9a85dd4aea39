// SPDX-License-Identifier: Apache-2.0
/// tests/package/names_stranger/main.c: a C11 program on folio::names: events of a pool whose pages have names.
#include <folio/c/folio.h>
#include <folio/names/c_names.h>

#include <stdio.h>
#include <string.h>

typedef struct {
  folio_page_name names[4];
  int count;
} heard;

static void on_event(void* context, const folio_pool_event* event, const int32_t* tokens, int64_t num_tokens) {
  heard* all = context;
  if (event->kind != FOLIO_STORED || event->has_name != 1 || all->count == 4) return;
  all->names[all->count++] = event->name;
  for (int i = 0; i < 4; ++i) printf("%02x", event->name.bytes[i]);
  printf(" %d ... %d\n", tokens[0], tokens[num_tokens - 1]);
}

static int failed(folio_code code, const folio_message* message) {
  if (code != FOLIO_OK) fprintf(stderr, "%s: %s\n", folio_get_code_name(code), message->text);
  return code != FOLIO_OK;
}

int main(void) {
  folio_message message;
  folio_sha256_names_options model = FOLIO_STRUCT(folio_sha256_names_options);
  memcpy(model.fingerprint, "a digest", 8);
  folio_sha256_names* names = NULL;
  if (failed(folio_create_sha256_names(&model, &names, &message), &message)) return 1;

  heard all = {.count = 0};
  folio_pool_options options = FOLIO_STRUCT(folio_pool_options);
  options.num_pages = 8;
  options.page_size = 4;
  options.name_page = folio_name_page_by_sha256;
  options.name_context = names;
  options.on_event = on_event;
  options.event_context = &all;
  folio_pool* pool = NULL;
  if (failed(folio_create_pool(&options, &pool, &message), &message)) return 1;

  const int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8};
  folio_sequence id = 0;
  folio_page_name name = {{0}}, second = {{0}};
  if (failed(folio_admit(pool, prompt, 8, NULL, &id, NULL, &message), &message) ||
      failed(folio_reserve(pool, id, 8, &message), &message) || failed(folio_commit(pool, id, prompt, 8, &message), &message) ||
      failed(folio_get_page_name(pool, id, 1, &name, &message), &message))
    return 1;

  // the same without a pool
  folio_page_content page = FOLIO_STRUCT(folio_page_content);
  page.parent = &all.names[0];
  page.tokens = prompt + 4;
  page.num_tokens = 4;
  if (folio_name_page_by_sha256(names, &page, &second) != FOLIO_OK) return 1;
  const int same = all.count == 2 && memcmp(&name, &all.names[1], sizeof name) == 0 && memcmp(&name, &second, sizeof name) == 0;
  folio_destroy_pool(pool);
  folio_destroy_sha256_names(names);
  return same ? 0 : 1;
}
