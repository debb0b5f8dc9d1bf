template <typename T> T twice(T n) {
  T sum = 0;
#pragma omp target map(tofrom : sum)
  sum += 2 * n;
  return sum;
}

template int twice(int);
template float twice(float);
