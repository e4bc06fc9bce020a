//! Loop programs and bodies to callable code.
