#include <hip/hip_runtime.h>

__global__ void set(int *data) { *data = 1; }

void launch(float *data);

int main() {
  set<<<1, 1>>>(nullptr);
  launch(nullptr);
}
