from libc.stdint cimport int8_t, int32_t, int64_t

cdef int64_t _note(const int32_t[::1] nodes, int8_t[::1] marks, int32_t[::1] queue, int64_t count)
