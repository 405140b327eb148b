//! RabbitMQ by AMQP 0-9-1: persistent messages to a durable queue, confirmed as the server likes; a consumer
//! with a prefetch of all slots, which acknowledges all that has come at once. Acknowledgements of work are not
//! answered; at the end the queue has to be empty.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crore_testkit::{Package, Process, free_port};

use crate::amqp::{Amqp, Args, Frame};
use crate::job::{self, SLOTS};
use crate::ledger::Ledger;
use crate::peer::{Durability, Fault, Peer, Setting};
use crate::produce::{Producer, produce};
use crate::server;

const CLASSIC: Setting = Setting::new("classic", Durability::Synced);
const QUORUM: Setting = Setting::new("quorum", Durability::Synced);

/// Everything in the server's own directory, a node that nobody else sees, and a port mapper of its own, which
/// ends with it: the server would start one that stays.
const SCRIPT: &str = r#"
export HOME="$PWD" RABBITMQ_NODE_PORT="$1" RABBITMQ_DIST_PORT="$2" ERL_EPMD_PORT="$3"
export ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODENAME=peer@localhost
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
export RABBITMQ_MNESIA_BASE="$PWD/data" RABBITMQ_LOG_BASE="$PWD" RABBITMQ_LOGS=-
export RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$PWD/none" RABBITMQ_CONFIG_FILES="$PWD/none.d"
export RABBITMQ_ADVANCED_CONFIG_FILE="$PWD/none.config" RABBITMQ_ENABLED_PLUGINS_FILE="$PWD/plugins"
export RUNNING_UNDER_SYSTEMD=yes
echo '[].' >plugins
setpriv --pdeathsig KILL epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 &
exec /usr/lib/rabbitmq/bin/rabbitmq-server
"#;

const QUEUE: &str = "jobs";
/// How long a worker waits at most before it looks whether all is over.
const NAP: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct RabbitMq;

impl Peer for RabbitMq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn packages(&self) -> Vec<Package> {
        let programs = &["/usr/lib/rabbitmq/bin/rabbitmq-server", "epmd"];
        vec![Package::Other { name: "rabbitmq-server", programs }]
    }

    fn settings(&self) -> Result<Vec<Setting>, Fault> {
        Ok(vec![CLASSIC, QUORUM])
    }

    fn start(&self, _: &Setting, below: &Path) -> Result<Process, Fault> {
        let ports = [free_port()?, free_port()?].map(|port| port.to_string());
        server::start("rabbitmq", SCRIPT, &ports.each_ref().map(String::as_str), below)
    }

    fn drive(&self, setting: &Setting, port: u16, ledger: &Arc<Ledger>) -> Result<u64, Fault> {
        let mut client = Amqp::open(port)?;
        declare(&mut client, setting)?;
        let (mut pushing, mut working) = (Pushing::open(port)?, Amqp::open(port)?);
        thread::scope(|scope| {
            let producer = scope.spawn(move || produce(ledger, &mut pushing));
            work(ledger, &mut working)?;
            producer.join().map_err(|_| "the producer panicked")?
        })?;
        // What was not acknowledged is back in the queue when its channel is closed.
        working.call(CHANNEL_CLOSE, &Args::new().short(0).text("").short(0).short(0))?;
        declare(&mut client, setting)
    }
}

const CHANNEL_CLOSE: (u16, u16) = (20, 40);
const QUEUE_DECLARE: (u16, u16) = (50, 10);
const BASIC_QOS: (u16, u16) = (60, 10);
const BASIC_CONSUME: (u16, u16) = (60, 20);
const BASIC_PUBLISH: (u16, u16) = (60, 40);
const BASIC_DELIVER: (u16, u16) = (60, 60);
const BASIC_ACK: (u16, u16) = (60, 80);
const CONFIRM_SELECT: (u16, u16) = (85, 10);

/// Makes the queue, if it is not there, and gives how many messages wait in it.
fn declare(client: &mut Amqp, setting: &Setting) -> Result<u64, Fault> {
    const DURABLE: u8 = 2;
    let args = Args::new().short(0).text(QUEUE).byte(DURABLE);
    let answer = client.call(QUEUE_DECLARE, &args.table(&[("x-queue-type", setting.name)]))?;
    let mut answer = answer.args();
    answer.text()?;
    answer.long().map(u64::from)
}

fn work(ledger: &Ledger, client: &mut Amqp) -> Result<(), Fault> {
    client.call(BASIC_QOS, &Args::new().long(0).short(SLOTS as u16).byte(0))?;
    client.call(BASIC_CONSUME, &Args::new().short(0).text(QUEUE).text("").byte(0).table(&[]))?;
    let (mut done, mut newest) = (Vec::with_capacity(SLOTS), 0);
    while !ledger.is_over() {
        if !client.line.wait(NAP)? {
            continue;
        }
        while client.line.has_more() {
            match client.frame()? {
                Frame::Method { method: BASIC_DELIVER, args } => {
                    let mut args = args.read();
                    args.text()?;
                    newest = args.longlong()?;
                }
                Frame::Body(body) => {
                    let number = job::number(&body);
                    ledger.ran([number]);
                    done.push(number);
                }
                Frame::Header => {}
                other @ Frame::Method { .. } => {
                    return Err(format!("rabbitmq said {other:?}").into());
                }
            }
        }
        if !done.is_empty() {
            const ALL_BEFORE_TOO: u8 = 1;
            client.say(BASIC_ACK, &Args::new().longlong(newest).byte(ALL_BEFORE_TOO));
            client.line.send()?;
            ledger.finished(done.drain(..));
        }
    }
    Ok(())
}

/// A connection, and what was not confirmed yet.
#[derive(Debug)]
struct Pushing {
    client: Amqp,
    next: u64,
    unconfirmed: BTreeSet<u64>,
}

impl Pushing {
    fn open(port: u16) -> Result<Self, Fault> {
        let mut client = Amqp::open(port)?;
        client.call(CONFIRM_SELECT, &Args::new().byte(0))?;
        Ok(Self { client, next: 1, unconfirmed: BTreeSet::new() })
    }

    /// How many it was.
    fn confirmed(&mut self, tag: u64, all_before_too: bool) -> u64 {
        if !all_before_too {
            return u64::from(self.unconfirmed.remove(&tag));
        }
        let later = self.unconfirmed.split_off(&(tag + 1));
        std::mem::replace(&mut self.unconfirmed, later).len() as u64
    }
}

impl Producer for Pushing {
    fn push(&mut self, jobs: Range<u64>) -> Result<(), Fault> {
        for job in jobs {
            self.client.say(BASIC_PUBLISH, &Args::new().short(0).text("").text(QUEUE).byte(0));
            self.client.persistent(BASIC_PUBLISH.0, &job::with(job));
            self.unconfirmed.insert(self.next);
            self.next += 1;
        }
        self.client.line.send()
    }

    fn answer(&mut self) -> Result<u64, Fault> {
        let mut n = 0;
        while n == 0 || self.client.line.has_more() {
            match self.client.frame()? {
                Frame::Method { method: BASIC_ACK, args } => {
                    let mut args = args.read();
                    let tag = args.longlong()?;
                    n += self.confirmed(tag, args.byte()? & 1 == 1);
                }
                other => return Err(format!("rabbitmq said {other:?}").into()),
            }
        }
        Ok(n)
    }
}
