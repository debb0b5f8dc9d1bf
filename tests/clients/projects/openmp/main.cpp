extern "C" int scaled(int n);
template <typename T> T twice(T n);

int main() { return scaled(0) + twice(0); }
