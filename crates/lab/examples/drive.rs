use threadgauge_lab::{experiments::oversubscription, view::params, worker::{Order, Worker}};
fn main(){ let p=params(&std::env::args().nth(1).unwrap()); let n=p.int("cpus").unwrap() as usize; let cpus:Vec<usize>=(0..n).collect();
 let o=Order{experiment:"x".into(),params:p.clone(),cpus:cpus.clone(),handicap_percent:0,launched_ns:0};
 threadgauge_machine::pin_self(&cpus.into_iter().collect()).unwrap();
 oversubscription::drive(&p,&Worker::new(&o)); }
