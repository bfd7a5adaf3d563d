/* Where a SavedModel's signature says that its tensors are. */

#ifndef SIGNATURE_H_
#define SIGNATURE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const uint8_t *data;
  size_t size;
} Bytes;

/* The fields of tensorflow.SignatureDef that hold its tensors. */
typedef enum { INPUTS = 1, OUTPUTS = 2 } Side;

/* Finds an input or output in a serialized tensorflow.MetaGraphDef.

Writes the name of the operation that makes the tensor, and which of its results it
is. Returns false, and writes nothing of use, if there is no such tensor, or its
operation's name takes more than `capacity` bytes. */
bool signature_tensor(Bytes meta_graph, const char *signature, Side side,
                      const char *tensor, char *operation, size_t capacity,
                      int *index);

#endif
