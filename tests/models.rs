//! From the name a client asks for to the endpoints that serve it, and what reaches them.

mod list;
mod names;
mod surfaces;
