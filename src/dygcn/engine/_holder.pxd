cdef class Holder:
    cdef readonly object arrays
