"""Host side of Stele: the kernel's symbols, its dumps, and what is made of them."""
