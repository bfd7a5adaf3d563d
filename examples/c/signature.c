/* Reads just enough of protocol buffers to find a signature's tensors, so that
   nothing need be linked but TensorFlow. */

#include "signature.h"

#include <stdio.h>
#include <string.h>

/* Numbers of fields, from meta_graph.proto. A map is a list of keys and values. */
enum { META_GRAPH_SIGNATURES = 5, ENTRY_KEY = 1, ENTRY_VALUE = 2, TENSOR_NAME = 1 };

static bool take_number(Bytes *rest, uint64_t *number) {
  *number = 0;
  for (int shift = 0; shift < 64 && rest->size; shift += 7) {
    uint8_t byte = *rest->data;
    rest->data++, rest->size--;
    *number |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

static bool take_bytes(Bytes *rest, uint64_t size, Bytes *taken) {
  if (size > rest->size) return false;
  *taken = (Bytes){rest->data, (size_t)size};
  rest->data += size, rest->size -= (size_t)size;
  return true;
}

/* Takes a message's next field; its contents are empty if it is a number. */
static bool take_field(Bytes *rest, uint64_t *field, Bytes *contents) {
  uint64_t tag, number;
  *contents = (Bytes){0};
  if (!take_number(rest, &tag)) return false;
  *field = tag >> 3;
  switch (tag & 7) {
    case 0:
      return take_number(rest, &number);
    case 1:
      return take_bytes(rest, 8, contents);
    case 2:
      return take_number(rest, &number) && take_bytes(rest, number, contents);
    case 5:
      return take_bytes(rest, 4, contents);
    default:
      return false; /* groups, which these messages have not */
  }
}

static bool find_field(Bytes message, uint64_t wanted, Bytes *contents) {
  uint64_t field;
  while (take_field(&message, &field, contents))
    if (field == wanted) return true;
  return false;
}

static bool find_in_map(Bytes message, uint64_t map, const char *key, Bytes *value) {
  uint64_t field;
  Bytes entry, found;
  while (take_field(&message, &field, &entry))
    if (field == map && find_field(entry, ENTRY_KEY, &found) &&
        found.size == strlen(key) && !memcmp(found.data, key, found.size))
      return find_field(entry, ENTRY_VALUE, value);
  return false;
}

bool signature_tensor(Bytes meta_graph, const char *signature, Side side,
                      const char *tensor, char *operation, size_t capacity,
                      int *index) {
  Bytes definition, info, name;
  if (!find_in_map(meta_graph, META_GRAPH_SIGNATURES, signature, &definition) ||
      !find_in_map(definition, side, tensor, &info) ||
      !find_field(info, TENSOR_NAME, &name) || name.size >= capacity)
    return false;
  memcpy(operation, name.data, name.size);
  operation[name.size] = '\0';
  char *colon = strrchr(operation, ':');
  if (!colon || sscanf(colon, ":%d", index) != 1) return false;
  *colon = '\0';
  return true;
}
