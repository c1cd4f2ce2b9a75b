cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._native cimport prefetch_32, word
from dygcn.engine.events.keys cimport key_of_int, key_of_string
from dygcn.engine.graph.hashing cimport hash_of_bytes, hash_of_word

cdef int64_t FAR

@cython.final
cdef class IdArrays(Holder):
    cdef int32_t[::1] table
    cdef uint64_t[::1] keys
    cdef uint64_t[::1] hashes
    cdef int64_t[::1] values
    cdef int32_t[::1] lengths
    cdef uint8_t[::1] arena
    cdef int32_t[::1] free
    cdef int64_t[::1] counts
    cdef int8_t[::1] alive
    cdef const uint64_t[::1] secret

cpdef bint has_capacity(IdArrays ids, int64_t new, int64_t new_bytes) noexcept
cdef void keys_at(IdArrays ids, const int32_t[::1] nodes, Py_ssize_t n, uint64_t[::1] out) noexcept nogil
cdef void hashes_at(IdArrays ids, const int32_t[::1] nodes, Py_ssize_t n, uint64_t[::1] out) noexcept nogil

cdef uint64_t _hash_int(IdArrays ids, int64_t value) noexcept nogil
cdef uint64_t _hash_string(IdArrays ids, const uint8_t[::1] data, int64_t start, int64_t size) noexcept nogil
@cython.locals(at=int64_t, mask=int64_t)
cdef int64_t _place_of_int(IdArrays ids, uint64_t hashed, int64_t value) noexcept nogil
@cython.locals(at=int64_t, mask=int64_t, node=int64_t)
cdef int64_t _place_of_string(IdArrays ids, uint64_t hashed, const uint8_t[::1] data, int64_t start, int64_t size) noexcept nogil
cdef bint _has_bytes(IdArrays ids, int64_t at, const uint8_t[::1] data, int64_t start, int64_t size) noexcept nogil
@cython.locals(node=int64_t)
cdef int64_t _next_node(IdArrays ids, int64_t at, uint64_t hashed) noexcept nogil
@cython.locals(node=int64_t)
cdef int64_t _intern_int(IdArrays ids, int64_t value, uint64_t hashed) noexcept nogil
@cython.locals(node=int64_t)
cdef int64_t _intern_string(IdArrays ids, const uint8_t[::1] data, int64_t start, int64_t size) noexcept nogil
cdef int64_t _find_int(IdArrays ids, int64_t value) noexcept nogil
cpdef int64_t find_int(IdArrays ids, int64_t value) noexcept
cdef int64_t _find_string(IdArrays ids, const uint8_t[::1] data, int64_t start, int64_t size) noexcept nogil
cpdef int64_t find_string(IdArrays ids, const uint8_t[::1] data) noexcept

@cython.locals(texts=bint, out=uint64_t[::1])
cpdef object hash_ids(IdArrays ids, const int64_t[::1] values, const uint8_t[::1] data)
@cython.locals(texts=bint, out=int32_t[::1])
cpdef object find_ids(IdArrays ids, const int64_t[::1] values, const uint8_t[::1] data, bint new)
@cython.locals(texts=bint, n=Py_ssize_t, out=int32_t[:, ::1])
cpdef object resolve(
    IdArrays ids, const int64_t[::1] src, const uint8_t[::1] src_data, const int64_t[::1] dst,
    const uint8_t[::1] dst_data, const int8_t[::1] op,
)
@cython.locals(n=int64_t, mask=int64_t, i=int64_t, at=int64_t, hashed=uint64_t[32])
cdef void _resolve_added(IdArrays ids, const int64_t[::1] src, const int64_t[::1] dst, const int8_t[::1] op, int32_t[:, ::1] out) noexcept nogil
cdef void _resolve_texts(IdArrays ids, const int64_t[::1] offsets, const uint8_t[::1] data, const int8_t[::1] op, bint adds, int32_t[:, ::1] out, Py_ssize_t end) noexcept nogil

@cython.locals(wasted=int64_t)
cpdef object forget(IdArrays ids, const int32_t[::1] nodes)
cdef object _check_nodes(IdArrays ids, const int32_t[::1] nodes)
@cython.locals(at=int64_t, home=int64_t, hole=int64_t)
cdef void _take_out(IdArrays ids, int64_t node, int64_t mask) noexcept nogil
@cython.locals(at=int64_t)
cpdef object rebuild_table(const int32_t[::1] nodes, int32_t[::1] table, const uint64_t[::1] hashes)
@cython.locals(ends=int64_t[::1], out=uint8_t[::1])
cpdef object gather_strings(IdArrays ids, const int32_t[::1] nodes)
