"""Stand-ins for tools of DPC++: the steps between the compiler and the link of device code, one module per tool."""
