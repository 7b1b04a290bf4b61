//! The system calls that no safe library offers as an experiment needs them: one leaf a file.

