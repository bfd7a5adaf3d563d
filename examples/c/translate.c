/* Translates lines with an exported model, through TensorFlow's C API.

   translate MODEL_VERSION_DIRECTORY TOKENIZER_LIBRARY [BATCH_SIZE] < in > out

Each line of standard input gives one line: the score, a tab, the translation.
TOKENIZER_LIBRARY is _sentencepiece_tokenizer.so of TensorFlow Text. What is loaded
and run here is what TensorFlow Serving loads and runs. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

#include "signature.h"

typedef struct {
  TF_Session *session;
  TF_Output text;
  TF_Output outputs[3]; /* translation, score, truncated */
  int num_outputs;      /* an older export lacks the last */
} Translator;

static void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("error: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(EXIT_FAILURE);
}

static void check(const TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK)
    fail("%s: %s (code %d)", what, TF_Message(status), TF_GetCode(status));
}

/* A tensor of the graph, which a signature calls "operation:index". */
static bool find_tensor(TF_Graph *graph, Bytes meta_graph, Side side,
                        const char *name, TF_Output *tensor) {
  char operation[1024];
  int index = 0;
  if (!signature_tensor(meta_graph, "serving_default", side, name, operation,
                        sizeof operation, &index))
    return false;
  *tensor = (TF_Output){TF_GraphOperationByName(graph, operation), index};
  return tensor->oper != NULL;
}

static Translator load(const char *directory, TF_Status *status) {
  const char *tags[] = {"serve"};
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *meta_graph = TF_NewBuffer();
  Translator translator = {0};
  translator.session = TF_LoadSessionFromSavedModel(
      options, NULL, directory, tags, 1, graph, meta_graph, status);
  check(status, directory);
  Bytes message = {meta_graph->data, meta_graph->length};
  if (!find_tensor(graph, message, INPUTS, "text", &translator.text))
    fail("%s: serving_default takes no text", directory);
  const char *names[] = {"translation", "score", "truncated"};
  while (translator.num_outputs < 3 &&
         find_tensor(graph, message, OUTPUTS, names[translator.num_outputs],
                     &translator.outputs[translator.num_outputs]))
    translator.num_outputs++;
  if (translator.num_outputs < 2)
    fail("%s: serving_default gives no %s", directory,
         names[translator.num_outputs]);
  TF_DeleteBuffer(meta_graph);
  TF_DeleteSessionOptions(options);
  return translator; /* the graph lives as long as its session */
}

/* Reads at most `most` lines into a tensor of strings; NULL where there are none. */
static TF_Tensor *read_batch(int64_t most) {
  TF_TString *texts = calloc((size_t)most, sizeof *texts);
  char *line = NULL;
  size_t capacity = 0;
  int64_t count = 0;
  for (ssize_t size; count < most && (size = getline(&line, &capacity, stdin)) >= 0;
       count++) {
    if (size > 0 && line[size - 1] == '\n') size--;
    TF_StringInit(&texts[count]);
    TF_StringCopy(&texts[count], line, (size_t)size);
  }
  if (ferror(stdin)) fail("standard input cannot be read");
  free(line);
  TF_Tensor *tensor = NULL;
  if (count) {
    size_t size = (size_t)count * sizeof *texts;
    tensor = TF_AllocateTensor(TF_STRING, &count, 1, size);
    memcpy(TF_TensorData(tensor), texts, size);
  }
  free(texts);
  return tensor;
}

static void write_batch(TF_Tensor *outputs[], int num_outputs, int64_t first_line) {
  const TF_TString *translations = TF_TensorData(outputs[0]);
  const float *scores = TF_TensorData(outputs[1]);
  const bool *truncated = num_outputs > 2 ? TF_TensorData(outputs[2]) : NULL;
  for (int64_t i = 0; i < TF_Dim(outputs[0], 0); i++) {
    if (truncated && truncated[i])
      fprintf(stderr,
              "warning: line %" PRId64 " is too long; its end was not translated\n",
              first_line + i);
    printf("%.6f\t", scores[i]);
    fwrite(TF_StringGetDataPointer(&translations[i]), 1,
           TF_StringGetSize(&translations[i]), stdout);
    putchar('\n');
  }
  if (fflush(stdout)) fail("standard output cannot be written");
}

static void free_strings(TF_Tensor *tensor) {
  TF_TString *strings = TF_TensorData(tensor);
  for (int64_t i = 0; i < TF_Dim(tensor, 0); i++) TF_StringDealloc(&strings[i]);
  TF_DeleteTensor(tensor);
}

int main(int argc, char *argv[]) {
  int64_t batch_size = argc > 3 ? atoll(argv[3]) : 32;
  if (argc < 3 || argc > 4 || batch_size < 1)
    fail("usage: %s MODEL_VERSION_DIRECTORY TOKENIZER_LIBRARY [BATCH_SIZE]", argv[0]);
  TF_Status *status = TF_NewStatus();
  TF_Library *tokenizer = TF_LoadLibrary(argv[2], status);
  check(status, argv[2]);
  Translator translator = load(argv[1], status);

  TF_Tensor *texts;
  for (int64_t line = 1; (texts = read_batch(batch_size)); line += batch_size) {
    TF_Tensor *outputs[3];
    TF_SessionRun(translator.session, NULL, &translator.text, &texts, 1,
                  translator.outputs, outputs, translator.num_outputs, NULL, 0, NULL,
                  status);
    check(status, "the model failed");
    write_batch(outputs, translator.num_outputs, line);
    for (int i = 0; i < translator.num_outputs; i++) TF_DeleteTensor(outputs[i]);
    free_strings(texts);
  }
  TF_CloseSession(translator.session, status);
  TF_DeleteSession(translator.session, status);
  TF_DeleteLibraryHandle(tokenizer);
  TF_DeleteStatus(status);
  return EXIT_SUCCESS;
}
