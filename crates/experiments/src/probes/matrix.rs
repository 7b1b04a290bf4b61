//! Matrix products that fill a cache, one after the other and sliced by a scheduler among threads on the same CPU.

use std::hint::black_box;
use std::thread;

use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;

/// Rows and columns: three matrices of doubles are 0.84 MiB, about a core's own cache.
const N: usize = 192;
const PRODUCTS: usize = 4;
/// How often each is multiplied: some 9 ms here, long enough for the scheduler to slice it.
const REPEATS: usize = 8;

/// Two factors and their product.
struct Matrices {
    a: Vec<f64>,
    b: Vec<f64>,
    product: Vec<f64>,
}

impl Matrices {
    fn new(seed: usize) -> Self {
        let filled = |step: usize| (0..N * N).map(|i| ((i * step + seed) % 7) as f64).collect();
        Self {
            a: filled(3),
            b: filled(5),
            product: vec![0.0; N * N],
        }
    }

    fn multiply_often(&mut self) {
        (0..REPEATS).for_each(|_| self.multiply());
    }

    /// By whole rows, whose length the compiler knows, two of them at a time: a plain program in C that does the same
    /// takes as long to a tenth.
    fn multiply(&mut self) {
        let [(a, _), (b, _)] = [self.a.as_chunks::<N>(), self.b.as_chunks::<N>()];
        let (pairs, _) = b.as_chunks::<2>();
        for (row, factors) in self.product.as_chunks_mut::<N>().0.iter_mut().zip(a) {
            row.fill(0.0);
            for ([by, and_by], [first, second]) in factors.as_chunks::<2>().0.iter().zip(pairs) {
                for ((cell, first), second) in row.iter_mut().zip(first).zip(second) {
                    *cell = *cell + by * first + and_by * second;
                }
            }
        }
        black_box(&self.product);
    }
}

fn all() -> Vec<Matrices> {
    let mut all: Vec<Matrices> = (0..PRODUCTS).map(Matrices::new).collect();
    // Once, so that the memory is there.
    all.iter_mut().for_each(Matrices::multiply);
    all
}

pub(super) fn serial(worker: &mut Worker) -> Result<f64, CaseError> {
    let mut all = all();
    let watch = worker.stopwatch();
    all.iter_mut().for_each(Matrices::multiply_often);
    let lap = watch.stop();
    Ok(lap.wall_ns as f64)
}

pub(super) fn threads(worker: &mut Worker) -> Result<f64, CaseError> {
    let mut all = all();
    let watch = worker.stopwatch();
    thread::scope(|scope| {
        for matrices in &mut all {
            thread::Builder::new()
                .spawn_scoped(scope, || matrices.multiply_often())
                .map_err(|e| refused("a thread for a matrix product", &e))?;
        }
        Ok(())
    })?;
    let lap = watch.stop();
    Ok(lap.wall_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_the_product() {
        let mut m = Matrices::new(1);
        m.multiply();
        let (i, j) = (3, 150);
        let expected: f64 = (0..N).map(|k| m.a[i * N + k] * m.b[k * N + j]).sum();
        assert_eq!(m.product[i * N + j], expected);
        assert!(expected > 0.0);
    }
}
