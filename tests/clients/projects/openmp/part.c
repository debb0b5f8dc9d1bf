int scaled(int n) {
  int sum = 0;
#pragma omp target map(tofrom : sum)
  sum += n;
  return sum;
}
