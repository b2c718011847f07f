/* The extension module `_codec`: its functions, its one type, and the number of its interface. */
#include "codec.h"

#define INTERFACE 7 /* `__init__.py` wants the same number: a stale build is not used */

static PyMethodDef functions[] = {
    {"crc32c", (PyCFunction)(void (*)(void))py_crc32c, METH_FASTCALL, NULL},
    {"crc32c_ways", py_crc32c_ways, METH_NOARGS, NULL},
    {"encode_rows", py_encode_rows, METH_VARARGS, NULL},
    {"check_records", py_check_records, METH_VARARGS, NULL},
    {"look_up", py_look_up, METH_VARARGS, NULL},
    {"order_body", py_order_body, METH_O, NULL},
    {"hash_keys", py_hash_keys, METH_VARARGS, NULL},
    {"digest_keys", py_digest_keys, METH_VARARGS, NULL},
    {"last_rows", py_last_rows, METH_VARARGS, NULL},
    {"gather", py_gather, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static const struct {
    const char *name;
    int value;
} constants[] = {
    {"INTERFACE", INTERFACE}, {"SKIPPED", SKIPPED}, {"TAKEN", TAKEN},
    {"PACKED", PACKED},       {"FULL", FULL},       {"REFUSED", REFUSED},
    {"OUT_OF_ORDER", OUT_OF_ORDER},
};

static int execute(PyObject *module)
{
    crc32c_choose();
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
            return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &decoder_spec, NULL);
    if (type == NULL)
        return -1;
    int answer = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return answer;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_codec",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__codec(void)
{
    return PyModuleDef_Init(&definition);
}
