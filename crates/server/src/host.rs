//! Who runs the handlers of functions that live in other processes.
