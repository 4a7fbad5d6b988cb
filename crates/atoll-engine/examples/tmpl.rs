//! temporary
use atoll_engine::template::*;
struct P(std::time::Instant, std::sync::Mutex<String>);
impl Progress for P { fn step(&self, t:&str, d:u64, n:u64){ let mut l=self.1.lock().unwrap(); let s=format!("{t} {}",d/50); if *l!=s { eprintln!("{:7.1}s {t} {d}/{n}", self.0.elapsed().as_secs_f64()); *l=s;} } }
fn main(){ let a:Vec<String>=std::env::args().collect(); let s=TemplateStore::new(std::env::var_os("ATOLL_HOME").unwrap().into());
 let p=P(std::time::Instant::now(), Default::default());
 let r = match a[1].as_str(){ "ensure"=>s.ensure(&a[2],&p), "rebuild"=>s.rebuild(&a[2],&p), "list"=>{println!("{}", serde_json::to_string_pretty(&s.list().unwrap()).unwrap());return}, "show"=>{println!("{}", serde_json::to_string(&s.show(&a[2]).unwrap()).unwrap());return}, _=>panic!()};
 match r { Ok(t)=>{ eprintln!("took {:?}", p.0.elapsed()); let mut t=t; t.warmup=t.warmup.map(|w|format!("{} chars",w.len())); println!("{t:#?}") }, Err(e)=>{eprintln!("error: {}\nhint: {:?}", atoll_jail::chain(&e), e.hint()); std::process::exit(1)} } }
